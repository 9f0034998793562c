-- KEYS lock, tokens. ARGV field, token or '', channel, how it is published.
-- Ends a hold on a lock in Redisson's layout; the owner's last one frees it, of which Redisson's waiters are told.
local call, K, A = redis.call, KEYS, ARGV
local counted = A[2] ~= '' and call('HGET', K[2], A[2])
if counted ~= '1' then
  -- An attempt that was refused before it was counted.
  if counted then redis.pcall('HDEL', K[2], A[2]) end
  return 0
end
local field = redis.pcall('HGET', K[1], A[1])
-- What may not be looked at is no answer.
if type(field) == 'table' and not string.find(field.err, 'WRONGTYPE') then return field end
if type(field) ~= 'string' then
  -- It was forced open: the other tokens are nothing any more, either.
  call('DEL', K[2])
  return 0
end
if tonumber(field) > 1 then
  -- The token first: where the second command is refused one of our counts stays, and none of another's is taken.
  call('HINCRBY', K[2], A[2], '-1')
  call('HINCRBY', K[1], A[1], '-1')
  redis.pcall('HDEL', K[2], A[2])
else
  call('DEL', K[1], K[2])
  -- What is free is free, whether or not that may be told.
  redis.pcall(A[4], A[3], '0')
end
return 1
