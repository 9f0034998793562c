-- The text under the lock's key where the guard has not read it, put into the scripts where they say so. A key of another
-- type, which MGET does not show, is another program's: it holds the lock, and reads as an empty text. An error of any other
-- kind, as where the user may not read the key, is passed on as the answer.
if not value then
  value = redis.pcall('GET', lock)
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE') then return value end
    value = ''
  end
end
