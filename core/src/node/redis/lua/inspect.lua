-- KEYS lock, queue, shared, counter [, record, quarantine] [, the lock of each slot of a semaphore]; ARGV record, or ''. Changes nothing.
-- 8, what stands ('=' held, '&' shared, '-' kept, '@' reserved, '.' a value alone, '' nothing), for how long yet in ms (-1: no end),
-- the value, the last fence that was counted and behind a blank the holder's own where it is known, how many are queued, for how long yet the node is in quarantine in ms, TIME, how many of
-- the slots are held, how many share it; and of those up to 16 whose votes end last. The value is the last of them. Of each value the first 2048 bytes, which is all of ours.
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value, quarantine
if A[1] ~= '' then
  local m = call('MGET', K[1], K[5], K[6])
  if A[1] ~= '-' and m[2] ~= A[1] then return {4, time[1], time[2]} end
  value, quarantine = m[1], m[3]
end
if not value then
  value = redis.pcall('GET', K[1])
  -- Of another type, which MGET does not show.
  if type(value) == 'table' then
    -- What may not be looked at is no answer.
    if not string.find(value.err, 'WRONGTYPE') then return value end
    value = ''
  end
end
--- form.lua
local standing, left, readers, some = '', 0, 0, {}
if last then
  standing, left, value = '&', math.ceil((last - now) / 1000), reader
  local first = call('ZRANGE', K[3], string.format('%.0f', now), '+inf', 'BYSCORE', 'LIMIT', '0', '1')
  readers = call('ZCARD', K[3]) - call('ZRANK', K[3], first[1])
  some = call('ZRANGE', K[3], -math.min(readers, 16), '-1')
elseif form then
  if stands then
    standing, left, value = form == '&' and '@' or form, math.ceil((till - now) / 1000), whose
  end
elseif value then
  standing, left = '.', call('PTTL', K[1])
end
local fence, queued = redis.pcall('ZSCORE', K[4], 'f'), redis.pcall('ZCARD', K[2])
fence = type(fence) == 'string' and string.format('%.0f', fence) or ''
local token = fence ~= '' and not last and standing ~= '' and string.match(value, '^([0-9a-f]+)%.')
if token and #token == 40 and tonumber(call('ZSCORE', K[4], 't') or 0) == tonumber(string.sub(token, 1, 12), 16) then
  fence = fence .. ' ' .. string.format('%.0f', call('ZSCORE', K[4], 'h'))
end
local slots = 0
local first = A[1] ~= '' and 7 or 5
for _, text in ipairs(K[first] and call('MGET', unpack(K, first)) or {}) do
  local mark, ends = string.match(text or '@0 ', '^([-=@])(%d+) ')
  if not mark or mark ~= '@' and now <= tonumber(ends) then slots = slots + 1 end
end
local reply = {
  8, standing, left, standing ~= '' and string.sub(value, 1, 2048) or '', fence,
  type(queued) == 'number' and queued / 2 or 0, quarantine and call('PTTL', K[6]) or 0, time[1], time[2],
  slots, readers
}
for _, one in ipairs(some) do reply[#reply + 1] = string.sub(one, 1, 2048) end
return reply
