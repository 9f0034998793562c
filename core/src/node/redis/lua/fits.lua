-- A text of another program may begin as a form does. A form of ours has behind it our value, or a waiter, readers by their
-- ticket, or no waiter and no end: put into the scripts where they say so.
local fits
if form and string.find('=-', form, 1, true) then
  local _, dot = string.find(occupant, '^[0-9a-f]*%.')
  fits = dot == 41
elseif form then
  fits = occupant == '' and till == '0' or string.find(occupant, '^%d+ ') or string.find(occupant, '^s%d+$')
end
if not fits then form, till, occupant = nil, nil, nil end
