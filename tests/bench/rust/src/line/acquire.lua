-- KEYS lock, queue, reservation [, counter [, record, quarantine]]; behind line.lua.
-- ARGV value, ttl, waits, waiter [, record, not_after, candidate, fence ttl [, block]].
-- Waits: the reservation in ms; at the waiter's home also the life of a place in ms, and how many may be queued.
local call, K, A = redis.call, KEYS, ARGV
local time, now, m, line = {}
if A[5] then
  time = call('TIME')
  now = time[1] * 1000000 + time[2]
  if A[5] ~= '' then
    m = call('MGET', K[5], K[6], K[3])
    if m[1] ~= A[5] then return {4, time[1], time[2]} end
  end
  if now > tonumber(A[6]) then return {5, time[1], time[2]} end
end
if m then
  if m[2] then
    -- In quarantine votes that stand are confirmed and refused for; no new one is given, and nobody is queued.
    local value = call('GET', K[1])
    if not value or value ~= A[1] and string.find(A[3], ' ') then
      return {3, call('PTTL', K[6]), time[1], time[2]}
    end
  end
  line = m[3]
else
  line = call('GET', K[3])
end
-- Reserved for another yet, in µs.
local reserved
if line and not call('GET', K[1]) then
  now = now or micros()
  local length = string.match(A[3], '^%d+')
  local till, whose = string.match(line, '^(%d+) (.*)$')
  if till and tonumber(till) > now then
    if whose ~= A[4] then reserved = till - now end
  elseif not turn(A[4], now, length) then
    reserved = length * 1000
  end
end
if not reserved and call('SET', K[1], A[1], 'NX', 'PX', A[2]) then
  if line then
    if A[4] ~= '' then call('ZREM', K[2], A[4], '!' .. A[4]) end
    unreserve()
  end
  if not A[5] then return 1 end
  if A[7] == '' then return {1, '', time[1], time[2]} end
  -- Nothing is proposed: nothing is counted, and what is stored was others'.
  if A[7] == '0' then return {1, call('GET', K[4]) or '', time[1], time[2]} end
  local fence = A[7]
  local last = call('SET', K[4], fence, 'PX', A[8], 'GET')
  last = (last and tonumber(last) or 0) + (A[9] or 1)
  local wanted = tonumber(fence)
  local next = wanted
  if next > now + 10000000 then next = now + 10000000 end
  if next < last then next = last end
  if next ~= wanted then
    fence = string.format('%.0f', next)
    call('SET', K[4], fence, 'PX', A[8])
  end
  return {1, fence, time[1], time[2]}
end
local left, holder
if reserved then
  left, holder = math.ceil(reserved / 1000), ''
else
  local value = call('GET', K[1])
  left = call('PTTL', K[1])
  if value == A[1] then
    if left < tonumber(A[2]) then call('PEXPIRE', K[1], A[2]) end
    if not A[5] then return 1 end
    return {1, A[7] == '' and '' or call('GET', K[4]) or '', time[1], time[2]}
  end
  holder = string.match(value, '^%x+%.(.*)$') or ''
end
local place, listeners = -1, 1
local life, most = string.match(A[3], ' (%d+) (%d+)$')
if life then
  local rank, queued = call('ZRANK', K[2], A[4]), call('ZCARD', K[2]) / 2
  if rank or queued < tonumber(most) then
    local ends = string.format('%.0f', -(now or micros()) - life * 1000)
    if rank then
      -- Before the waiters are as many ends of places.
      place = rank - queued
      call('ZADD', K[2], ends, '!' .. A[4])
    else
      place = queued
      local last = call('ZRANGE', K[2], '-1', '-1', 'WITHSCORES')[2] or 0
      call('ZADD', K[2], string.format('%.0f', last + 1), A[4], ends, '!' .. A[4])
    end
    if not line then call('SET', K[3], '', 'PX', life) end
    for i = 2, 3 do
      if call('PTTL', K[i]) < tonumber(life) then call('PEXPIRE', K[i], life) end
    end
    listeners = redis.pcall('PUBSUB', 'NUMSUB', string.match(A[4], ' (.*)$'))[2] or 1
  end
end
return {0, left, holder, place, listeners, time[1], time[2]}
