-- KEYS lock, queue, shared [, record, quarantine] [, bans]; ARGV value, waiter, waits [, record or '' [, keep]].
-- Waits: the reservation and the life of a place, in ms; of a slot `#` and its number. Keep: for how long the lock stays taken, in ms;
-- behind `-`: for how long the lease is banned, which is forced out. Then the last key is that of the bans.
local call = redis.call
local lock, queue, shared, record_key, quarantine_key = unpack(KEYS)
local my_value, waiter, waits, record, keep = unpack(ARGV)
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value
-- A reservation promises a vote: only where one may be given.
local votes = true
if record and record ~= '' then
  local m = call('MGET', lock, record_key, quarantine_key)
  value, votes = m[1], (record == '-' or m[2] == record) and not m[3]
end
--- value.lua
--- form.lua
--- lease.lua
local ban = keep and string.match(keep, '^%-(%d+)$')
local held = value and (lease(value) == mine or (form == '=' or form == '-') and lease(occupant) == mine)
-- A forced release names what inspect showed, another library's value as well.
if ban and my_value ~= '' and not form and value == my_value then held = true end
if form == '&' and my_value ~= '' and call('ZREM', shared, my_value) == 1 then
  held = true
  if reader == my_value then
    local found = call('ZRANGE', shared, '-1', '-1', 'WITHSCORES')
    last = found[1] and now <= tonumber(found[2]) and tonumber(found[2])
  end
end
local free = not value or form ~= '&' and held or form and (not stands or (form == '@' or form == '&') and occupant == waiter)
if waiter ~= '' then redis.pcall('ZREM', queue, waiter, '!' .. waiter) end
if ban then
  -- The ban stands also where the lease has no vote, for its holder would store it anew.
  local bans, banned = KEYS[#KEYS], mine
  --- ban.lua
elseif held and form == '-' and now <= tonumber(till) then
  return 1
elseif keep and my_value ~= '' and free and form ~= '&' and not (held and form == '-') then
  -- Kept also where the lease has no vote and no other has: else another client would win by this node. A crowded key
  -- outlives the places of the waiters, and they may exist where nothing stands. A node that may not vote may have forgotten
  -- another lease's vote, which that client counts: its keep stands, and counts for nothing.
  local life = (form or not value and redis.pcall('ZCARD', queue) ~= 0) and tonumber(string.match(waits, ' (%d+)')) or 0
  call('SET', lock, string.format('-%.0f ', now + keep * 1000) .. my_value, 'PX', math.max(keep, life))
  return held and 1 or votes and 2 or 0
end
if not free and (form == '@' or form == '&') then
  -- No called reader is to come yet. A waiter for it alone may have one of their tickets: they restart in an empty queue.
  local ticket = string.match(occupant, '^s(%d+)$')
  local first = ticket and call('ZRANGE', queue, '0', '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
  free = ticket and (not first[1] or string.sub(first[1], 1, 1) ~= 's' or tonumber(first[2]) > tonumber(ticket))
end
if free then
  -- The lock is released, whatever becomes of the line.
  local ok, kept = pcall(function()
    local reservation, life, slot = string.match(waits, '^(%d+) (%d+) ?#?(%d*)$')
    if slot == '' then slot = nil end
    if not votes then
      if last or call('ZCARD', queue) == 0 then return false end
      call('SET', lock, '@0 ', 'PX', life)
      return true
    end
    --- line.lua
    return turn(nil) == 2
  end)
  if value and not (ok and kept) then
    if not last then
      call('DEL', lock)
    elseif stands then
      call('SET', lock, '&0 ' .. base .. ' ', 'KEEPTTL')
    end
  end
end
return held and 1 or 0
