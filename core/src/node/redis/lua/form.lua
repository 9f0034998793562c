-- What stands under the lock's key, by its form (docs/reference/protocol.md, "What stands under a lock's key"): put into
-- the scripts where they say so. Readers are the members of the set KEYS[3], each until `TIME` shows more than its score;
-- `last` is the end of the last reader that still lives, and `reader` its value.
local form, till, occupant, base, last, reader
if value then form, till, occupant = string.match(value, '^([-=@&])(%d+) (.*)$') end
if form == '&' then
  base, occupant = string.match(occupant, '^(%d+) (.*)$')
  if not base then
    form = nil
  elseif shared == lock then
    -- A raw lock has no readers' key, and its own key stands for it: the readers are of another lock, as a key of another
    -- type.
    form, value = nil, ''
  end
end
--- fits.lua
if form == '&' then
  local found = call('ZRANGE', shared, '-1', '-1', 'WITHSCORES')
  if found[1] and now <= tonumber(found[2]) then reader, last = found[1], tonumber(found[2]) end
end
local stands = form and now <= tonumber(till)
