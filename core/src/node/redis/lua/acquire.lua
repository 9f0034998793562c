-- KEYS lock, queue, shared, bans [, counter [, record, quarantine]].
-- ARGV value, ttl, waits, waiter [, record, not_after, candidate, life of the counter [, block]].
-- Waits: the reservation and the life of a place, in ms; at the waiter's home also how many may be queued; of a slot
-- `#` and its number.
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value, quarantine
if A[5] and A[5] ~= '' then
  local m = call('MGET', K[1], K[6], K[7])
  if A[5] ~= '-' and m[2] ~= A[5] then return {4, time[1], time[2]} end
  value, quarantine = m[1], m[3]
end
if A[5] and now > tonumber(A[6]) then return {5, time[1], time[2]} end
-- MGET does not show what is of another type; GET says so.
if not value then value = call('GET', K[1]) end
--- form.lua
--- lease.lua
local own = value and lease(value) == mine or form == '=' and stands and lease(whose) == mine
local held = value and (not form or last or form ~= '@' and form ~= '&' and stands)
-- Who was forced out does not come back by a request that was under way: also where a plain command has stored it since.
local banned = (own or not held) and call('ZSCORE', K[4], mine)
if banned and now <= tonumber(banned) then return {2, time[1], time[2]} end
local reservation, life, most = string.match(A[3], '^(%d+) (%d+) ?(%d*)')
if quarantine and (own or not held or most ~= '') then return {3, call('PTTL', K[7]), time[1], time[2]} end
-- Reserved for this waiter; others may wait behind it.
local crowded = (form == '@' or form == '&' and not last) and stands and whose == A[4]
if not own and not crowded then
  local left, holder, ours = nil, '', false
  if held then
    left = form and math.ceil(((last or till) - now) / 1000) or call('PTTL', K[1])
    local token, label = string.match(reader or whose or value, '^([0-9a-f]+)%.(.*)$')
    if token and #token == 40 then ours, holder = true, label end
  elseif stands then
    left = math.ceil((till - now) / 1000)
  else
    local slot = string.match(A[3], '#(%d+)$')
    --- line.lua
    local whom = turn(A[4])
    if whom == 2 then left = tonumber(reservation) end
    if not left and whom ~= 0 and A[4] ~= '' then call('ZREM', K[2], A[4], '!' .. A[4]) end
    crowded = whom == 1
  end
  --- join.lua
end
if own then
  local rest = tonumber(A[2])
  if form then
    local full = math.max(now + rest * 1000, till)
    call('SET', K[1], string.format('=%.0f ', full) .. A[1], 'KEEPTTL')
    rest = math.ceil((full - now) / 1000)
  elseif value ~= A[1] then
    call('SET', K[1], A[1], 'KEEPTTL')
  end
  if call('PTTL', K[1]) < rest then call('PEXPIRE', K[1], rest) end
elseif crowded then
  -- Where readers were, it was reserved for one that may be queued too.
  if form == '&' then call('ZREM', K[2], A[4], '!' .. A[4]) end
  call('SET', K[1], string.format('=%.0f ', now + A[2] * 1000) .. A[1], 'PX', math.max(A[2], life))
else
  call('SET', K[1], A[1], 'PX', A[2])
end
local counter = K[5]
--- fence.lua
