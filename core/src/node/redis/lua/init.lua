-- KEYS record, quarantine; ARGV the record that was read, the new one, quarantine in ms, and why it begins.
local call, K, A = redis.call, KEYS, ARGV
local stored = call('GET', K[1]) or ''
if stored ~= A[1] then return {0, string.sub(stored, 1, 2048)} end
if tonumber(A[3]) > math.max(0, call('PTTL', K[2])) then call('SET', K[2], A[4], 'PX', A[3]) end
call('SET', K[1], A[2])
return {1, A[2]}
