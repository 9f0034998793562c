-- KEYS lock, tokens, counter [, record, quarantine]. ARGV field, token, ttl, mode, record or '', not_after, fence or '', block.
-- Keeps a hold on a lock in Redisson's layout. Modes as of extend; but what is gone is gone: Redisson's forceUnlock deletes
-- the lock, and no more than that.
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local quarantine
if A[5] ~= '' then
  local m = call('MGET', K[4], K[5])
  if A[5] ~= '-' and m[1] ~= A[5] then return {4, time[1], time[2]} end
  quarantine = m[2]
end
if now > tonumber(A[6]) then return {5, time[1], time[2]} end
local field = redis.pcall('HGET', K[1], A[1])
-- Of another type: it is gone. What may not be looked at is no answer.
if type(field) == 'table' and not string.find(field.err, 'WRONGTYPE') then return field end
if type(field) ~= 'string' or call('HGET', K[2], A[2]) ~= '1' then return {0, time[1], time[2]} end
if quarantine and (A[4] == '0' or A[4] == '1') then return {3, call('PTTL', K[5]), time[1], time[2]} end
local last = A[7] ~= '' and tonumber(call('GET', K[3]) or '0')
if last and A[4] == '3' and last > A[7] - A[8] then return {6, string.format('%.0f', last), time[1], time[2]} end
-- Written first, and in any case, as by extend, for it needs no memory.
for i = 1, 2 do call('PEXPIRE', K[i], math.max(A[3], call('PTTL', K[i]))) end
if last and last < tonumber(A[7]) then
  call('SET', K[3], A[7])
  call('HSET', K[2], 'f', A[7])
end
return {1, A[7], time[1], time[2]}
