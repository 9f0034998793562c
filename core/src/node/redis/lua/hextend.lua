-- KEYS lock, tokens, counter [, record, quarantine]. ARGV field, token, ttl, mode, record or '', not_after, fence or '', block.
-- Keeps a hold on a lock in Redisson's layout. Modes as of extend; but a lost hold stays lost: Redisson's forceUnlock
-- deletes the lock, and no more.
local call = redis.call
local lock, tokens, counter, record_key, quarantine_key = unpack(KEYS)
local owner_field, token, ttl, mode, record, not_after, last_fence, block = unpack(ARGV)
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local quarantine
if record ~= '' then
  local m = call('MGET', record_key, quarantine_key)
  if record ~= '-' and m[1] ~= record then return {4, time[1], time[2]} end
  quarantine = m[2]
end
if now > tonumber(not_after) then return {5, time[1], time[2]} end
local field = redis.pcall('HGET', lock, owner_field)
-- A key of another type: the hold is gone. An error of any other kind is passed on.
if type(field) == 'table' and not string.find(field.err, 'WRONGTYPE') then return field end
if type(field) ~= 'string' or call('HGET', tokens, token) ~= '1' then return {0, time[1], time[2]} end
if quarantine and (mode == '0' or mode == '1') then return {3, call('PTTL', quarantine_key), time[1], time[2]} end
local last = last_fence ~= '' and tonumber(call('GET', counter) or '0')
if last and mode == '3' and last > last_fence - block then return {6, string.format('%.0f', last), time[1], time[2]} end
-- Written first, and always, as by extend, for it needs no memory.
for _, key in ipairs({lock, tokens}) do call('PEXPIRE', key, math.max(ttl, call('PTTL', key))) end
if last and last < tonumber(last_fence) then
  call('SET', counter, last_fence)
  call('HSET', tokens, 'f', last_fence)
end
return {1, last_fence, time[1], time[2]}
