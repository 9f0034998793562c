-- KEYS lock; ARGV value. A release of a lock that nobody waits for, where the server cannot delete by value itself.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
