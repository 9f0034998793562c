-- KEYS lock, queue, reservation [, counter [, record, quarantine]];
-- ARGV value, ttl, mode [, record, not_after, fence, fence ttl].
-- Modes: 0 extend; 1 and repair; 2 and repair even in quarantine; 3 store the fence.
local call, K, A = redis.call, KEYS, ARGV
local time = {}
if A[4] then
  time = call('TIME')
  if A[4] ~= '' and call('GET', K[5]) ~= A[4] then return {4, time[1], time[2]} end
  if time[1] * 1000000 + time[2] > tonumber(A[5]) then return {5, time[1], time[2]} end
end
local value = call('GET', K[1])
local mine = value == A[1]
if not mine then
  if value or A[3] == '0' or A[3] == '3' then return A[4] and {0, time[1], time[2]} or 0 end
  if A[3] == '1' and A[4] and A[4] ~= '' then
    local left = call('PTTL', K[6])
    if left ~= -2 then return {3, left, time[1], time[2]} end
  end
end
local fence = ''
if A[6] and A[6] ~= '' then
  fence = A[6]
  local last = call('GET', K[4])
  if last and tonumber(last) > tonumber(fence) then
    if A[3] == '3' then return {6, last, time[1], time[2]} end
    fence = last
  end
end
if mine then
  if call('PTTL', K[1]) < tonumber(A[2]) then call('PEXPIRE', K[1], A[2]) end
else
  call('SET', K[1], A[1], 'PX', A[2])
  -- A vote ends a reservation, whoever it is for.
  if (call('MGET', K[3])[1] or '') ~= '' then call('SET', K[3], '', 'KEEPTTL') end
end
if fence ~= '' then call('SET', K[4], fence, 'PX', A[7]) end
local code = mine and 1 or 2
return A[4] and {code, fence, time[1], time[2]} or code
