-- KEYS lock, queue, shared, bans [, counter [, record, quarantine]].
-- ARGV value, ttl, waits, waiter [, record, not_after, candidate, life of the counter [, block]].
-- Waits: the reservation and the life of a place, in ms; at the waiter's home also how many may be queued; of a slot
-- `#` and its number.
local call = redis.call
local lock, queue, shared, bans, counter, record_key, quarantine_key = unpack(KEYS)
local my_value, ttl, waits, waiter, record, not_after, candidate, counter_life, block = unpack(ARGV)
--- guard.lua
-- MGET does not show what is of another type; GET says so.
if not value then value = call('GET', lock) end
--- form.lua
--- lease.lua
local own = value and lease(value) == mine or form == '=' and stands and lease(occupant) == mine
local held = value and (not form or last or form ~= '@' and form ~= '&' and stands)
-- A request that was under way takes no vote for a lease that was forced out, also where a plain command stored its value
-- there since.
local banned = (own or not held) and call('ZSCORE', bans, mine)
if banned and now <= tonumber(banned) then return {2, time[1], time[2]} end
local reservation, life, most = string.match(waits, '^(%d+) (%d+) ?(%d*)')
if quarantine and (own or not held or most ~= '') then return {3, call('PTTL', quarantine_key), time[1], time[2]} end
-- Reserved for this waiter; others may wait behind it.
local crowded = (form == '@' or form == '&' and not last) and stands and occupant == waiter
if not own and not crowded then
  local left, holder, ours = nil, '', false
  if held then
    left = form and math.ceil(((last or till) - now) / 1000) or call('PTTL', lock)
    local token, label = string.match(reader or occupant or value, '^([0-9a-f]+)%.(.*)$')
    if token and #token == 40 then ours, holder = true, label end
  elseif stands then
    left = math.ceil((till - now) / 1000)
  else
    local slot = string.match(waits, '#(%d+)$')
    --- line.lua
    local whose_turn = turn(waiter)
    if whose_turn == 2 then left = tonumber(reservation) end
    if not left and whose_turn ~= 0 and waiter ~= '' then call('ZREM', queue, waiter, '!' .. waiter) end
    crowded = whose_turn == 1
  end
  --- join.lua
end
if own then
  local rest = tonumber(ttl)
  if form then
    local full = math.max(now + rest * 1000, till)
    call('SET', lock, string.format('=%.0f ', full) .. my_value, 'KEEPTTL')
    rest = math.ceil((full - now) / 1000)
  elseif value ~= my_value then
    call('SET', lock, my_value, 'KEEPTTL')
  end
  if call('PTTL', lock) < rest then call('PEXPIRE', lock, rest) end
elseif crowded then
  -- Where readers had it the waiter may be queued yet.
  if form == '&' then call('ZREM', queue, waiter, '!' .. waiter) end
  call('SET', lock, string.format('=%.0f ', now + ttl * 1000) .. my_value, 'PX', math.max(ttl, life))
else
  call('SET', lock, my_value, 'PX', ttl)
end
--- fence.lua
