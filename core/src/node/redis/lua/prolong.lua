-- KEYS lock; ARGV value, ttl, not_after. Lengthens a vote for one alone that stands, and does nothing else: an extension where
-- the hash slot of the lock is being moved, so that its keys are not all in one place.
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(A[3]) then return {5, time[1], time[2]} end
--- lease.lua
local value = redis.pcall('GET', K[1])
if type(value) == 'table' then
  if not string.find(value.err, 'WRONGTYPE') then return value end
  value = nil
end
local till, whose = string.match(value or '', '^=(%d+) (.*)$')
local crowded = whose and lease(whose) == mine and now <= tonumber(till)
if not crowded and (not value or lease(value) ~= mine) then return {0, time[1], time[2]} end
-- Written first, as by extend, for it needs no memory.
call('PEXPIRE', K[1], math.max(A[2], call('PTTL', K[1])))
if crowded then
  local full = math.max(now + A[2] * 1000, till)
  call('SET', K[1], string.format('=%.0f ', full) .. A[1], 'KEEPTTL')
  local rest = math.ceil((full - now) / 1000)
  if call('PTTL', K[1]) < rest then call('PEXPIRE', K[1], rest) end
elseif value ~= A[1] then
  call('SET', K[1], A[1], 'KEEPTTL')
end
return {1, '', time[1], time[2]}
