-- A text of another program may begin as a form does. One of ours has a value of ours behind it, or a waiter, readers by their
-- ticket, or nobody and no end: put into the scripts where they say so.
local fits
if form and string.find('=-', form, 1, true) then
  local _, dot = string.find(whose, '^[0-9a-f]*%.')
  fits = dot == 41
elseif form then
  fits = whose == '' and till == '0' or string.find(whose, '^%d+ ') or string.find(whose, '^s%d+$')
end
if not fits then form, till, whose = nil, nil, nil end
