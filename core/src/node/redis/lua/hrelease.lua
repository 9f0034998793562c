-- KEYS lock, tokens. ARGV field, token or '', channel, how it is published.
-- Ends a hold on a lock in Redisson's layout; the owner's last release frees it, and tells Redisson's waiters.
local call = redis.call
local lock, tokens = unpack(KEYS)
local owner_field, token, channel, publish = unpack(ARGV)
local counted = token ~= '' and call('HGET', tokens, token)
if counted ~= '1' then
  -- An acquire was refused before it was counted.
  if counted then redis.pcall('HDEL', tokens, token) end
  return 0
end
local field = redis.pcall('HGET', lock, owner_field)
-- An error is no answer, but for the type's.
if type(field) == 'table' and not string.find(field.err, 'WRONGTYPE') then return field end
if type(field) ~= 'string' then
  -- The lock was forced open: the other tokens count nothing, too.
  call('DEL', tokens)
  return 0
end
if tonumber(field) > 1 then
  -- The token comes first: where the server refuses the second command our count stays, and none of another's is taken.
  call('HINCRBY', tokens, token, '-1')
  call('HINCRBY', lock, owner_field, '-1')
  redis.pcall('HDEL', tokens, token)
else
  call('DEL', lock, tokens)
  -- The lock is free, whether or not the message is permitted.
  redis.pcall(publish, channel, '0')
end
return 1
