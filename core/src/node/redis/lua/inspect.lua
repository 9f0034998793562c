-- KEYS lock, queue, counter [, record, quarantine]; ARGV record, or ''. Changes nothing.
-- 8, what stands ('=' held, '-' kept, '@' reserved, '.' a value alone, '' nothing), for how long yet in ms (-1: no end),
-- the value, the last fence, how many are queued, for how long yet the node is in quarantine in ms, TIME.
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value, quarantine
if A[1] ~= '' then
  local m = call('MGET', K[1], K[4], K[5])
  if m[2] ~= A[1] then return {4, time[1], time[2]} end
  value, quarantine = m[1], m[3]
end
if not value then
  value = redis.pcall('GET', K[1])
  -- Of another type, which MGET does not show.
  if type(value) == 'table' then value = '' end
end
local form, till, whose
if value then form, till, whose = string.match(value, '^([-=@])(%d+) (.*)$') end
local stands, left = '', 0
if form then
  if now <= tonumber(till) then stands, left, value = form, math.ceil((till - now) / 1000), whose end
elseif value then
  stands, left = '.', call('PTTL', K[1])
end
local fence, queued = redis.pcall('ZSCORE', K[3], 'f'), redis.pcall('ZCARD', K[2])
return {
  8, stands, left, stands ~= '' and value or '', type(fence) == 'string' and string.format('%.0f', fence) or '',
  type(queued) == 'number' and queued / 2 or 0, quarantine and call('PTTL', K[5]) or 0, time[1], time[2]
}
