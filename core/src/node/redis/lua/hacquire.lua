-- KEYS lock, tokens, counter [, record, quarantine].
-- ARGV field, token, ttl, channel or '', record or '', not_after, candidate, block.
-- A lock in Redisson's layout: a hash with one field, its owner's, that counts the owner's entries. Our tokens say which of
-- these counts are ours, so that a request may come twice, and its undo behind a request that was refused halfway. A
-- channel: the client listens there as a waiter.
local call = redis.call
local lock, tokens, counter, record_key, quarantine_key = unpack(KEYS)
local owner_field, token, ttl, channel, record, not_after, candidate, block = unpack(ARGV)
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local quarantine
if record ~= '' then
  local m = call('MGET', record_key, quarantine_key)
  if record ~= '-' and m[1] ~= record then return {4, time[1], time[2]} end
  quarantine = m[2]
end
if now > tonumber(not_after) then return {5, time[1], time[2]} end
local fields, owner, own = call('HGETALL', lock), nil, false
for i = 1, #fields, 2 do
  if fields[i] == 'mode' then return {9, time[1], time[2]} end
  if fields[i] == owner_field then own = true else owner = fields[i] end
end
if owner and not own then
  return {0, call('PTTL', lock), string.sub(owner, 1, 2048), channel ~= '' and 0 or -1, 1, time[1], time[2]}
end
if quarantine then return {3, call('PTTL', quarantine_key), time[1], time[2]} end
-- Tokens remain of a lock that was forced open.
if not own then call('DEL', tokens) end
-- A server may refuse any of these commands, and what was done before stays. So the owner's count comes behind all else, and a
-- token says whether it was counted: 0, then 1.
local new = call('HGET', tokens, token) ~= '1'
if new then call('HSET', tokens, token, '0') end
call('PEXPIRE', tokens, string.format('%.0f', math.max(ttl, call('PTTL', tokens))))
local fence = candidate
if fence ~= '' then
  local has = call('HGET', tokens, 'f')
  if fence == '0' or has then
    -- The hold is the owner's, as is the fence that was taken for it.
    fence = tonumber(has or '0')
  else
    local last = tonumber(call('GET', counter) or '0')
    fence = math.max(math.min(tonumber(fence), now + 10000000), last + block)
    -- The counter has no end: Redisson's own counter has none, or would begin at 1 again.
    call('SET', counter, string.format('%.0f', fence))
    call('HSET', tokens, 'f', string.format('%.0f', fence))
  end
  fence = fence > 0 and string.format('%.0f', fence) or ''
end
if new then
  call('HINCRBY', lock, owner_field, '1')
  call('HINCRBY', tokens, token, '1')
end
if call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
return {1, fence, time[1], time[2]}
