-- KEYS lock, queue, shared [, record, quarantine] [, bans]; ARGV value, waiter, waits [, record or '' [, keep]].
-- Waits: the reservation and the life of a place, in ms; of a slot `#` and its number. Keep: for how long the lock stays taken, in ms;
-- behind `-`: for how long the lease is banned, which is forced out. Then the last key is that of the bans.
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value
-- To reserve is to promise a vote: only where one may be given.
local votes = true
if A[4] and A[4] ~= '' then
  local m = call('MGET', K[1], K[4], K[5])
  value, votes = m[1], (A[4] == '-' or m[2] == A[4]) and not m[3]
end
if not value then
  value = redis.pcall('GET', K[1])
  -- Of another type, which MGET does not show: held, by somebody who is none of us.
  if type(value) == 'table' then
    -- What may not be looked at is no answer.
    if not string.find(value.err, 'WRONGTYPE') then return value end
    value = ''
  end
end
--- form.lua
--- lease.lua
local ban = A[5] and string.match(A[5], '^%-(%d+)$')
local held = value and (lease(value) == mine or (form == '=' or form == '-') and lease(whose) == mine)
-- Who forces has been told what stands there, another library's value too.
if ban and A[1] ~= '' and not form and value == A[1] then held = true end
if form == '&' and A[1] ~= '' and call('ZREM', K[3], A[1]) == 1 then
  held = true
  if reader == A[1] then
    local found = call('ZRANGE', K[3], '-1', '-1', 'WITHSCORES')
    last = found[1] and now <= tonumber(found[2]) and tonumber(found[2])
  end
end
local free = not value or form ~= '&' and held or form and (not stands or (form == '@' or form == '&') and whose == A[2])
if A[2] ~= '' then redis.pcall('ZREM', K[2], A[2], '!' .. A[2]) end
if ban then
  -- Also where it has no vote, for there its holder would store it anew.
  local bans, banned = K[#K], mine
  --- ban.lua
elseif held and form == '-' and now <= tonumber(till) then
  return 1
elseif A[5] and A[1] ~= '' and free and form ~= '&' and not (held and form == '-') then
  -- Also where it has no vote and nobody else has: else another would win by this node. A crowded key outlives the places
  -- of those who wait, and they may where nothing is.
  local life = (form or not value and redis.pcall('ZCARD', K[2]) ~= 0) and tonumber(string.match(A[3], ' (%d+)')) or 0
  call('SET', K[1], string.format('-%.0f ', now + A[5] * 1000) .. A[1], 'PX', math.max(A[5], life))
  return held and 1 or 2
end
if not free and (form == '@' or form == '&') then
  -- Of readers who were called none is to come yet. Who waits for it alone may have one of their tickets: these begin anew
  -- in a queue that was empty.
  local ticket = string.match(whose, '^s(%d+)$')
  local first = ticket and call('ZRANGE', K[2], '0', '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
  free = ticket and (not first[1] or string.sub(first[1], 1, 1) ~= 's' or tonumber(first[2]) > tonumber(ticket))
end
if free then
  -- What is released is released, whatever becomes of the line.
  local ok, kept = pcall(function()
    local reservation, life, slot = string.match(A[3], '^(%d+) (%d+) ?#?(%d*)$')
    if slot == '' then slot = nil end
    if not votes then
      if last or call('ZCARD', K[2]) == 0 then return false end
      call('SET', K[1], '@0 ', 'PX', life)
      return true
    end
    --- line.lua
    return turn(nil) == 2
  end)
  if value and not (ok and kept) then
    if not last then
      call('DEL', K[1])
    elseif stands then
      call('SET', K[1], '&0 ' .. base .. ' ', 'KEEPTTL')
    end
  end
end
return held and 1 or 0
