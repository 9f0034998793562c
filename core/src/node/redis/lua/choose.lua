-- KEYS queue, the lock of each slot from 0 on [, record, quarantine].
-- ARGV waiter, waits, from [, record, not_after]. Waits as of acquire. Finds a free slot, looking first at the one of the
-- number `from`, and reserves it for the waiter, if there is one; it is no vote. Without `from` the waiter goes: what was
-- reserved for it is free.
local call, A, me = redis.call, ARGV, ARGV[1]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local guarded = A[4] and A[4] ~= ''
local slots = guarded and #KEYS - 3 or #KEYS - 1
local values = call('MGET', unpack(KEYS, 2))
local goes, votes, quarantine = A[3] == '', true, nil
if guarded then
  votes, quarantine = A[4] == '-' or values[slots + 1] == A[4], values[slots + 2]
  if not votes and not goes then return {4, time[1], time[2]} end
end
if not goes and A[5] and now > tonumber(A[5]) then return {5, time[1], time[2]} end
local reservation, life, most = string.match(A[2], '^(%d+) (%d+) ?(%d*)$')
if quarantine and not goes then return {3, call('PTTL', KEYS[#KEYS]), time[1], time[2]} end
local K, slot, value, form, till, whose, stands = {'', KEYS[1]}, nil, nil, nil, nil, nil, nil
-- `last` and `base` are of readers: a slot has none.
local last, base
local function look(number)
  slot, value, form = number, values[number + 1], nil
  K[1] = KEYS[number + 2]
  if value then form, till, whose = string.match(value, '^([-=@])(%d+) (.*)$') end
  --- fits.lua
  stands = form and now <= tonumber(till)
end
--- line.lua
if goes then
  redis.pcall('ZREM', K[2], me, '!' .. me)
  for number = 0, slots - 1 do
    look(number)
    if form == '@' and (not stands or whose == me) then
      local ok, kept = pcall(function()
        if votes and not quarantine then return turn(nil) == 2 end
        if call('ZCARD', K[2]) == 0 then return false end
        call('SET', K[1], '@0 ', 'PX', life)
        return true
      end)
      if not (ok and kept) then call('DEL', K[1]) end
    end
  end
  return 0
end
local free = {}
for i = 0, slots - 1 do
  look((A[3] + i) % slots)
  if form == '@' and stands and whose == me then return {7, slot, time[1], time[2]} end
  -- MGET does not show what is of another type; GET says so.
  if form and not stands or not value and type(redis.pcall('GET', K[1])) ~= 'table' then free[#free + 1] = slot end
end
for _, number in ipairs(free) do
  look(number)
  if turn(me) ~= 2 then
    if me ~= '' then
      call('ZREM', K[2], me, '!' .. me)
      local reserved = string.format('@%.0f ', now + reservation * 1000) .. me
      call('SET', K[1], reserved, 'PX', math.max(reservation, life))
    end
    return {7, slot, time[1], time[2]}
  end
  values[number + 1] = call('GET', K[1])
end
local place, listeners, rank, queued = -1, 1, nil, nil
if most ~= '' then rank, queued = call('ZRANK', K[2], me), call('ZCARD', K[2]) / 2 end
local joins = rank or queued and queued < tonumber(most)
if joins then
  --- place.lua
  listeners = redis.pcall('PUBSUB', 'NUMSUB', string.match(me, ' (.*)$'))[2] or 1
end
-- Until the first of them is free; and what a waiter waits for is crowded from here on, all of it.
local left = -1
for number = 0, slots - 1 do
  look(number)
  local rest = form and math.max(math.ceil((till - now) / 1000), 0) or call('PTTL', K[1])
  if rest >= 0 and (left < 0 or rest < left) then left = rest end
  if joins and form then
    if call('PTTL', K[1]) < tonumber(life) then call('PEXPIRE', K[1], life) end
  elseif joins and value and rest >= 0 then
    local token = string.match(value, '^([0-9a-f]+)%.')
    if token and #token == 40 then
      time = call('TIME')
      local marked = string.format('=%.0f ', time[1] * 1000000 + time[2] + rest * 1000 + 1000) .. value
      call('SET', K[1], marked, 'PX', math.max(rest, life))
    end
  end
end
return {0, left, '', place, listeners, time[1], time[2]}
