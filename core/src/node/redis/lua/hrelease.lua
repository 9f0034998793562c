-- KEYS lock, tokens. ARGV field, token or '', channel, how it is published.
-- Ends a hold on a lock in Redisson's layout; the owner's last one frees it, of which Redisson's waiters are told.
local call, K, A = redis.call, KEYS, ARGV
if A[2] == '' or call('HDEL', K[2], A[2]) == 0 then return 0 end
local field = redis.pcall('HGET', K[1], A[1])
if type(field) ~= 'string' then
  -- It was forced open: the other tokens are nothing any more, either.
  call('DEL', K[2])
  return 0
end
if tonumber(field) > 1 then
  call('HINCRBY', K[1], A[1], '-1')
else
  call('DEL', K[1], K[2])
  -- What is free is free, whether or not that may be told.
  redis.pcall(A[4], A[3], '0')
end
return 1
