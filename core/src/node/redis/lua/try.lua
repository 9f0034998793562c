-- KEYS scratch keys, one of each kind. Tries what the other scripts do; returns the first command that is not permitted,
-- or `~` and the key that is not.
for _, key in ipairs(KEYS) do
  for _, command in ipairs({
    {'set', key, '1', 'NX', 'PX', '1000'}, {'get', key}, {'mget', key}, {'pttl', key}, {'pexpire', key, '1000'},
    -- The keys are no queues, so all these alter nothing.
    {'zadd', key, '1', 'x'}, {'zincrby', key, '1', 'x'}, {'zcard', key}, {'zrange', key, '0', '0'},
    {'zrank', key, 'x'}, {'zscore', key, 'x'}, {'zrem', key, 'x'}, {'del', key}, {'time'},
  }) do
    local reply = redis.pcall(unpack(command))
    if type(reply) == 'table' and reply.err then
      local text = string.lower(reply.err)
      if string.find(text, 'access') and string.find(text, 'key') then return '~' .. key end
      if string.find(text, 'noperm') or string.find(text, "can't run") or string.find(text, 'no permissions')
        or string.find(text, 'unknown') then
        return command[1]
      end
    end
  end
end
return ''
