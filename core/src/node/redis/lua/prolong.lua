-- KEYS lock; ARGV value, ttl, not_after. Lengthens a standing vote for
-- one holder alone, and does nothing else: an extension where the
-- lock's hash slot is moving, so that its keys are not all in one
-- place.
local call = redis.call
local lock = KEYS[1]
local my_value, ttl, not_after = unpack(ARGV)
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(not_after) then return {5, time[1], time[2]} end
--- lease.lua
local value = redis.pcall('GET', lock)
if type(value) == 'table' then
  if not string.find(value.err, 'WRONGTYPE') then return value end
  value = nil
end
local till, occupant = string.match(value or '', '^=(%d+) (.*)$')
local crowded = occupant and lease(occupant) == mine and now <= tonumber(till)
if not crowded and (not value or lease(value) ~= mine) then return {0, time[1], time[2]} end
-- Written first, as by extend, for it needs no memory.
call('PEXPIRE', lock, math.max(ttl, call('PTTL', lock)))
if crowded then
  local full = math.max(now + ttl * 1000, till)
  call('SET', lock, string.format('=%.0f ', full) .. my_value, 'KEEPTTL')
  local rest = math.ceil((full - now) / 1000)
  if call('PTTL', lock) < rest then call('PEXPIRE', lock, rest) end
elseif value ~= my_value then
  call('SET', lock, my_value, 'KEEPTTL')
end
return {1, '', time[1], time[2]}
