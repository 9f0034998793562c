-- KEYS lock, queue, shared, counter [, record, quarantine] [, the lock of each slot of a semaphore]; ARGV record, or ''. Changes nothing.
-- 8, what stands ('=' held, '&' shared, '-' kept, '@' reserved, '.' a value alone, '' nothing), for how long yet in ms (-1: no end),
-- the value, the last fence that was counted and behind a blank the holder's own where it is known, how many are queued, for how long yet the node is in quarantine in ms, TIME, how many of
-- the slots are held, how many share it; and of those up to 16 whose votes end last. The value is the last of them. Of each value the first 2048 bytes, which is all of ours.
local call = redis.call
local lock, queue, shared, counter, record_key, quarantine_key = unpack(KEYS)
local record = ARGV[1]
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value, quarantine
if record ~= '' then
  local m = call('MGET', lock, record_key, quarantine_key)
  if record ~= '-' and m[2] ~= record then return {4, time[1], time[2]} end
  value, quarantine = m[1], m[3]
end
--- value.lua
--- form.lua
local standing, left, readers, some = '', 0, 0, {}
if last then
  standing, left, value = '&', math.ceil((last - now) / 1000), reader
  local first = call('ZRANGE', shared, string.format('%.0f', now), '+inf', 'BYSCORE', 'LIMIT', '0', '1')
  readers = call('ZCARD', shared) - call('ZRANK', shared, first[1])
  some = call('ZRANGE', shared, -math.min(readers, 16), '-1')
elseif form then
  if stands then
    standing, left, value = form == '&' and '@' or form, math.ceil((till - now) / 1000), occupant
  end
elseif value then
  standing, left = '.', call('PTTL', lock)
end
local fence, queued = redis.pcall('ZSCORE', counter, 'f'), redis.pcall('ZCARD', queue)
fence = type(fence) == 'string' and string.format('%.0f', fence) or ''
local token = fence ~= '' and not last and standing ~= '' and string.match(value, '^([0-9a-f]+)%.')
if token and #token == 40 and tonumber(call('ZSCORE', counter, 't') or 0) == tonumber(string.sub(token, 1, 12), 16) then
  fence = fence .. ' ' .. string.format('%.0f', call('ZSCORE', counter, 'h'))
end
local slots = 0
local first = record ~= '' and 7 or 5
for _, text in ipairs(KEYS[first] and call('MGET', unpack(KEYS, first)) or {}) do
  local mark, ends = string.match(text or '@0 ', '^([-=@])(%d+) ')
  if not mark or mark ~= '@' and now <= tonumber(ends) then slots = slots + 1 end
end
local reply = {
  8, standing, left, standing ~= '' and string.sub(value, 1, 2048) or '', fence,
  type(queued) == 'number' and queued / 2 or 0, quarantine and call('PTTL', quarantine_key) or 0, time[1], time[2],
  slots, readers
}
for _, one in ipairs(some) do reply[#reply + 1] = string.sub(one, 1, 2048) end
return reply
