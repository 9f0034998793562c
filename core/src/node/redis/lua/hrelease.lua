-- KEYS lock, tokens. ARGV field, token or '', channel, how it is published.
-- Ends a hold on a lock in Redisson's layout; the owner's last one frees it, of which Redisson's waiters are told.
local call = redis.call
local lock, tokens = unpack(KEYS)
local owner_field, token, channel, publish = unpack(ARGV)
local counted = token ~= '' and call('HGET', tokens, token)
if counted ~= '1' then
  -- An attempt that was refused before it was counted.
  if counted then redis.pcall('HDEL', tokens, token) end
  return 0
end
local field = redis.pcall('HGET', lock, owner_field)
-- What may not be looked at is no answer.
if type(field) == 'table' and not string.find(field.err, 'WRONGTYPE') then return field end
if type(field) ~= 'string' then
  -- It was forced open: the other tokens are nothing any more, either.
  call('DEL', tokens)
  return 0
end
if tonumber(field) > 1 then
  -- The token first: where the second command is refused one of our counts stays, and none of another's is taken.
  call('HINCRBY', tokens, token, '-1')
  call('HINCRBY', lock, owner_field, '-1')
  redis.pcall('HDEL', tokens, token)
else
  call('DEL', lock, tokens)
  -- What is free is free, whether or not that may be told.
  redis.pcall(publish, channel, '0')
end
return 1
