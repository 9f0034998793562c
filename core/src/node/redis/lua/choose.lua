-- KEYS queue, the lock of each slot from 0 on [, record, quarantine].
-- ARGV waiter, waits, from [, record, not_after]. Waits as of acquire. Finds a free slot, beginning with the one of the
-- number `from`, and reserves it for the waiter, if there is one; that is no vote. Without `from` the waiter leaves: its
-- reserved slots are set free then.
local call, queue = redis.call, KEYS[1]
local me, waits, from, record, not_after = unpack(ARGV)
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local guarded = record and record ~= ''
local slots = guarded and #KEYS - 3 or #KEYS - 1
local values = call('MGET', unpack(KEYS, 2))
local goes, votes, quarantine = from == '', true, nil
if guarded then
  votes, quarantine = record == '-' or values[slots + 1] == record, values[slots + 2]
  if not votes and not goes then return {4, time[1], time[2]} end
end
if not goes and not_after and now > tonumber(not_after) then return {5, time[1], time[2]} end
local reservation, life, most = string.match(waits, '^(%d+) (%d+) ?(%d*)$')
if quarantine and not goes then return {3, call('PTTL', KEYS[#KEYS]), time[1], time[2]} end
-- The slot that `look` looks at, and its form.
local lock, slot, value, form, till, occupant, stands
-- `last` and `base` belong to readers: a slot has none.
local last, base
local function look(number)
  slot, value, form = number, values[number + 1], nil
  lock = KEYS[number + 2]
  if value then form, till, occupant = string.match(value, '^([-=@])(%d+) (.*)$') end
  --- fits.lua
  stands = form and now <= tonumber(till)
end
--- line.lua
if goes then
  redis.pcall('ZREM', queue, me, '!' .. me)
  for number = 0, slots - 1 do
    look(number)
    if form == '@' and (not stands or occupant == me) then
      local ok, kept = pcall(function()
        if votes and not quarantine then return turn(nil) == 2 end
        if call('ZCARD', queue) == 0 then return false end
        call('SET', lock, '@0 ', 'PX', life)
        return true
      end)
      if not (ok and kept) then call('DEL', lock) end
    end
  end
  return 0
end
local free = {}
for i = 0, slots - 1 do
  look((from + i) % slots)
  if form == '@' and stands and occupant == me then return {7, slot, time[1], time[2]} end
  -- MGET does not show what is of another type; GET says so.
  if form and not stands or not value and type(redis.pcall('GET', lock)) ~= 'table' then free[#free + 1] = slot end
end
for _, number in ipairs(free) do
  look(number)
  if turn(me) ~= 2 then
    if me ~= '' then
      call('ZREM', queue, me, '!' .. me)
      local reserved = string.format('@%.0f ', now + reservation * 1000) .. me
      call('SET', lock, reserved, 'PX', math.max(reservation, life))
    end
    return {7, slot, time[1], time[2]}
  end
  values[number + 1] = call('GET', lock)
end
local place, listeners, rank, queued = -1, 1, nil, nil
if most ~= '' then rank, queued = call('ZRANK', queue, me), call('ZCARD', queue) / 2 end
local joins = rank or queued and queued < tonumber(most)
if joins then
  --- place.lua
  listeners = redis.pcall('PUBSUB', 'NUMSUB', string.match(me, ' (.*)$'))[2] or 1
end
-- Refused until the first slot is free; the waiter makes all slots crowded.
local left = -1
for number = 0, slots - 1 do
  look(number)
  local rest = form and math.max(math.ceil((till - now) / 1000), 0) or call('PTTL', lock)
  if rest >= 0 and (left < 0 or rest < left) then left = rest end
  if joins and form then
    if call('PTTL', lock) < tonumber(life) then call('PEXPIRE', lock, life) end
  elseif joins and value and rest >= 0 then
    local token = string.match(value, '^([0-9a-f]+)%.')
    if token and #token == 40 then
      time = call('TIME')
      local marked = string.format('=%.0f ', time[1] * 1000000 + time[2] + rest * 1000 + 1000) .. value
      call('SET', lock, marked, 'PX', math.max(rest, life))
    end
  end
end
return {0, left, '', place, listeners, time[1], time[2]}
