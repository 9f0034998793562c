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
local rest = tonumber(A[2])
if whose and lease(whose) == mine and now <= tonumber(till) then
  local full = math.max(now + rest * 1000, till)
  call('SET', K[1], string.format('=%.0f ', full) .. A[1], 'KEEPTTL')
  rest = math.ceil((full - now) / 1000)
elseif not value or lease(value) ~= mine then
  return {0, time[1], time[2]}
elseif value ~= A[1] then
  call('SET', K[1], A[1], 'KEEPTTL')
end
if call('PTTL', K[1]) < rest then call('PEXPIRE', K[1], rest) end
return {1, '', time[1], time[2]}
