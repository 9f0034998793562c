-- KEYS lock, fence [, record, quarantine]; ARGV value, ttl [, record, not_after, candidate, fence ttl].
local call, K, A = redis.call, KEYS, ARGV
local time, now = {}
if A[3] then
  time = call('TIME')
  now = time[1] * 1000000 + time[2]
  if now > tonumber(A[4]) then return {5, time[1], time[2]} end
  if A[3] ~= '' then
    local m = call('MGET', K[3], K[4])
    if m[1] ~= A[3] then return {4, time[1], time[2]} end
    -- In quarantine votes that stand are confirmed and refused for; no new one is given.
    if m[2] and not call('GET', K[1]) then return {3, call('PTTL', K[4]), time[1], time[2]} end
  end
end
if call('SET', K[1], A[1], 'NX', 'PX', A[2]) then
  if not A[3] then return 1 end
  if A[5] == '' then return {1, '', time[1], time[2]} end
  local fence = A[5]
  local last = call('SET', K[2], fence, 'PX', A[6], 'GET')
  last = last and tonumber(last) or 0
  local wanted = tonumber(fence)
  local next = wanted
  if next < now - 1000000 then next = now elseif next > now + 10000000 then next = now + 10000000 end
  if next <= last then next = last + 1 end
  if next ~= wanted then
    fence = string.format('%.0f', next)
    call('SET', K[2], fence, 'PX', A[6])
  end
  return {1, fence, time[1], time[2]}
end
local value = call('GET', K[1])
local left = call('PTTL', K[1])
if value == A[1] then
  if left < tonumber(A[2]) then call('PEXPIRE', K[1], A[2]) end
  if not A[3] then return 1 end
  return {1, A[5] == '' and '' or call('GET', K[2]) or '', time[1], time[2]}
end
return {0, left, string.match(value, '^%x+%.(.*)$') or '', time[1], time[2]}
