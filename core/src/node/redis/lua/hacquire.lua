-- KEYS lock, tokens, counter [, record, quarantine].
-- ARGV field, token, ttl, channel or '', record or '', not_after, candidate, block.
-- A lock in Redisson's layout: a hash with one field, its owner's, that counts how often the owner has entered. Our tokens
-- say which of those counts are ours, so that a request may come twice, and its undo behind one that was refused halfway. A channel: the asker listens there for who waits.
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
local fields, owner, own = call('HGETALL', K[1]), nil, false
for i = 1, #fields, 2 do
  if fields[i] == 'mode' then return {9, time[1], time[2]} end
  if fields[i] == A[1] then own = true else owner = fields[i] end
end
if owner and not own then
  return {0, call('PTTL', K[1]), string.sub(owner, 1, 2048), A[4] ~= '' and 0 or -1, 1, time[1], time[2]}
end
if quarantine then return {3, call('PTTL', K[5]), time[1], time[2]} end
-- What is left of a lock that was forced open.
if not own then call('DEL', K[2]) end
-- A server may refuse any of these commands, and what was done before stays. So the owner's count comes behind all else, and a
-- token says whether it was counted: 0, then 1.
local new = call('HGET', K[2], A[2]) ~= '1'
if new then call('HSET', K[2], A[2], '0') end
call('PEXPIRE', K[2], string.format('%.0f', math.max(A[3], call('PTTL', K[2]))))
local fence = A[7]
if fence ~= '' then
  local has = call('HGET', K[2], 'f')
  if fence == '0' or has then
    -- The hold is the owner's, and so is the fence that was taken for it.
    fence = tonumber(has or '0')
  else
    local last = tonumber(call('GET', K[3]) or '0')
    fence = math.max(math.min(tonumber(fence), now + 10000000), last + A[8])
    -- Without an end: Redisson's own counter has none, and would begin at 1 again.
    call('SET', K[3], string.format('%.0f', fence))
    call('HSET', K[2], 'f', string.format('%.0f', fence))
  end
  fence = fence > 0 and string.format('%.0f', fence) or ''
end
if new then
  call('HINCRBY', K[1], A[1], '1')
  call('HINCRBY', K[2], A[2], '1')
end
if call('PTTL', K[1]) < tonumber(A[3]) then call('PEXPIRE', K[1], A[3]) end
return {1, fence, time[1], time[2]}
