-- KEYS lock, record, quarantine, or the lock alone; ARGV waiter, reservation and life in ms, record or '', not_after.
-- Reserves a lock that no holder has for itself for the waiter, so that no reader comes any more.
local call = redis.call
local lock, record_key, quarantine_key = unpack(KEYS)
local waiter, waits, record, not_after = unpack(ARGV)
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value, quarantine
if record ~= '' then
  local m = call('MGET', lock, record_key, quarantine_key)
  if record ~= '-' and m[2] ~= record then return {4, time[1], time[2]} end
  value, quarantine = m[1], m[3]
end
if now > tonumber(not_after) then return {5, time[1], time[2]} end
if not value then value = call('GET', lock) end
local form, till, occupant
if value then form, till, occupant = string.match(value, '^([-=@&])(%d+) (.*)$') end
local base
if form == '&' then
  base, occupant = string.match(occupant, '^(%d+) (.*)$')
  if not base then form = nil end
end
--- fits.lua
local stands = form and now <= tonumber(till)
local free = not value or form and (not stands or (form == '@' or form == '&') and occupant == waiter)
if quarantine or not free then return {0, time[1], time[2]} end
local reservation, life = string.match(waits, '^(%d+) (%d+)$')
local reserved = string.format('%.0f ', now + reservation * 1000)
local least = math.max(reservation, life)
if form == '&' then
  call('SET', lock, '&' .. reserved .. base .. ' ' .. waiter, 'KEEPTTL')
  if call('PTTL', lock) < least then call('PEXPIRE', lock, least) end
else
  call('SET', lock, '@' .. reserved .. waiter, 'PX', least)
end
return {1, time[1], time[2]}
