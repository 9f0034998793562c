-- KEYS lock, queue, shared, bans [, counter [, record, quarantine]].
-- ARGV value, ttl, waits, waiter [, record, not_after, candidate, life of the counter]. As acquire; the waiter is to share
-- the lock. Behind its waits stands a blank and `+` where its home has voted for it.
local call = redis.call
local lock, queue, shared, bans, counter, record_key, quarantine_key = unpack(KEYS)
local my_value, ttl, waits, waiter, record, not_after, candidate, counter_life = unpack(ARGV)
--- guard.lua
-- MGET does not show what is of another type; GET says so.
if not value then value = call('GET', lock) end
--- form.lua
--- lease.lua
local score = last and call('ZSCORE', shared, my_value)
local own = score and now <= tonumber(score)
local held = value and (not form or form ~= '@' and form ~= '&' and stands)
-- A request under way takes no vote for a lease that was forced out of it.
local banned = not held and call('ZSCORE', bans, mine)
if banned and now <= tonumber(banned) then return {2, time[1], time[2]} end
local reservation, life, most, let_in = string.match(waits, '^(%d+) (%d+) ?(%d*) ?(%+?)$')
if quarantine and (not held or most ~= '') then return {3, call('PTTL', quarantine_key), time[1], time[2]} end
if not own then
  local left, holder, ours = nil, '', false
  if held then
    left = form and math.ceil((till - now) / 1000) or call('PTTL', lock)
    local token, label = string.match(occupant or value, '^([0-9a-f]+)%.(.*)$')
    if token and #token == 40 then ours, holder = true, label end
  else
    local passes
    if stands then
      -- The home alone orders the line, and has let this reader in before
      -- the waiter that reserves the other nodes. A queued waiter shows that
      -- another client takes this node for the home: its line is what
      -- counts.
      passes = let_in == '+' and call('ZCARD', queue) == 0
    else
      local slot
      --- line.lua
      local whose_turn = turn(waiter)
      if whose_turn == 5 then
        left, holder = math.ceil((last - now) / 1000), string.match(reader, '%.(.*)$')
      end
    end
    -- While readers are called any reader may enter.
    if stands and not passes and not string.find(occupant, '^s') then left = math.ceil((till - now) / 1000) end
    if not left and last then
      for _, over in ipairs(call('ZRANGE', shared, '-inf', string.format('(%.0f', now), 'BYSCORE', 'LIMIT', '0', '64')) do
        call('ZREM', shared, over)
      end
      if call('ZCARD', shared) >= 10000 then left = math.ceil((last - now) / 1000) end
    end
  end
  --- join.lua
  if waiter ~= '' then call('ZREM', queue, waiter, '!' .. waiter) end
end
local fence = candidate or ''
local known
if form ~= '&' or base == '0' and fence ~= '' then
  -- 0: not known, for the first reader counts no fences. The counter is no less by now.
  known = fence ~= '' and string.format('%.0f', math.max(call('ZSCORE', counter, 'f') or 0, 1))
  base = known or '0'
end
local least
--- vote.lua
if not record then return 1 end
if fence == '0' then
  -- No candidate: nothing is counted, and the stored value was another's.
  fence = call('ZSCORE', counter, 'f')
  fence = fence and string.format('%.0f', fence) or ''
elseif fence ~= '' then
  if tonumber(fence) > now + 10000000 then fence = string.format('%.0f', now + 10000000) end
  -- Beyond all fences of holders alone. Readers may share one number.
  if tonumber(fence) <= tonumber(base) then fence = string.format('%.0f', base + 1) end
  call('ZADD', counter, 'GT', fence, 'f')
  if counter_life ~= '' then call('PEXPIRE', counter, counter_life) end
end
return {1, fence, time[1], time[2]}
