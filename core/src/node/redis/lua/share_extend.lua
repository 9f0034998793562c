-- KEYS lock, queue, shared, bans [, counter [, record, quarantine]].
-- ARGV value, ttl, mode, waits [, record, not_after, fence, life of the counter]. As extend, for a shared vote. A vote for
-- one holder alone becomes shared, and the waiters that can share it then are notified of that.
local call = redis.call
local lock, queue, shared, bans, counter, record_key, quarantine_key = unpack(KEYS)
local my_value, ttl, mode, waits, record, not_after, last_fence, counter_life = unpack(ARGV)
--- guard.lua
--- value.lua
--- form.lua
--- lease.lua
local score = last and call('ZSCORE', shared, my_value)
local own = score and now <= tonumber(score)
local alone = value and lease(value) == mine or form == '=' and stands and lease(occupant) == mine
local held = value and (not form or form ~= '@' and form ~= '&' and stands)
if mode == '3' and not own or not own and not alone and (held or mode == '0') then
  return record and {0, time[1], time[2]} or 0
end
-- A lease that was forced out stays out. A plain command that was under way may store its value, and that is no vote.
local banned = call('ZSCORE', bans, mine)
if banned and now <= tonumber(banned) then return {0, time[1], time[2], 1} end
-- In quarantine the value may be a vote that was never counted. Modes 2 and 3 extend counted votes.
if quarantine and (mode == '0' or mode == '1') then return {3, call('PTTL', quarantine_key), time[1], time[2]} end
local fence = last_fence or ''
if fence ~= '' and mode == '3' then
  -- Without a known base the whole counter bounds it.
  local least = base ~= '0' and base or string.format('%.0f', call('ZSCORE', counter, 'f') or 0)
  if tonumber(least) >= tonumber(fence) then return {6, least, time[1], time[2]} end
end
-- Written first, as by extend, for it needs no memory.
local lives = (own or alone) and call('PTTL', lock) or 0
if lives > 0 then call('PEXPIRE', lock, lives) end
if fence ~= '' then
  call('ZADD', counter, 'GT', fence, 'f')
  call('PEXPIRE', counter, counter_life)
end
local known
if form ~= '&' then
  base = fence ~= '' and string.format('%.0f', math.max(call('ZSCORE', counter, 'f') or 0, 1)) or '0'
end
local reservation, life = string.match(waits, '^(%d+) (%d+)$')
-- The end that was counted on stands.
local least = alone and (form and tonumber(till) or now + call('PTTL', lock) * 1000 + 1000)
--- vote.lua
if alone and not quarantine then
  local slot
  form, last = '&', tonumber(full)
  --- line.lua
  -- The next waiter that asks learns the error.
  pcall(turn, nil)
end
local code = (own or alone) and 1 or 2
return record and {code, last_fence, time[1], time[2]} or code
