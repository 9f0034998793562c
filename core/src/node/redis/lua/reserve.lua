-- KEYS lock, record, quarantine, or the lock alone; ARGV waiter, reservation and life in ms, record or '', not_after.
-- A lock that nobody has for itself is reserved for the waiter, so that no reader comes any more.
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value, quarantine
if A[3] ~= '' then
  local m = call('MGET', K[1], K[2], K[3])
  if A[3] ~= '-' and m[2] ~= A[3] then return {4, time[1], time[2]} end
  value, quarantine = m[1], m[3]
end
if now > tonumber(A[4]) then return {5, time[1], time[2]} end
if not value then value = call('GET', K[1]) end
local form, till, whose
if value then form, till, whose = string.match(value, '^([-=@&])(%d+) (.*)$') end
local base
if form == '&' then
  base, whose = string.match(whose, '^(%d+) (.*)$')
  if not base then form = nil end
end
--- fits.lua
local stands = form and now <= tonumber(till)
local free = not value or form and (not stands or (form == '@' or form == '&') and whose == A[1])
if quarantine or not free then return {0, time[1], time[2]} end
local reservation, life = string.match(A[2], '^(%d+) (%d+)$')
local reserved = string.format('%.0f ', now + reservation * 1000)
local least = math.max(reservation, life)
if form == '&' then
  call('SET', K[1], '&' .. reserved .. base .. ' ' .. A[1], 'KEEPTTL')
  if call('PTTL', K[1]) < least then call('PEXPIRE', K[1], least) end
else
  call('SET', K[1], '@' .. reserved .. A[1], 'PX', least)
end
return {1, time[1], time[2]}
