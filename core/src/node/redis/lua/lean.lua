-- KEYS lock; ARGV value. A release of a lock without waiters, where the server cannot delete by value by
-- itself.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
