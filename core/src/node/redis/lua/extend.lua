-- KEYS lock, bans, shared [, counter [, record, quarantine]].
-- ARGV value, ttl, mode [, record, not_after, fence, life of the counter [, block]].
-- Modes: 0 extend; 1 and repair; 2 and repair even in quarantine; 3 store the fence, which is the last of its block.
local call = redis.call
local lock, bans, shared, counter, record_key, quarantine_key = unpack(KEYS)
local my_value, ttl, mode, record, not_after, last_fence, counter_life, block = unpack(ARGV)
--- guard.lua
--- value.lua
--- form.lua
--- lease.lua
local own = value and lease(value) == mine or form == '=' and stands and lease(occupant) == mine
local gone = not last and (not value or form == '@' or form == '&' or form and not stands)
if not own and (not gone or mode == '0' or mode == '3') then return record and {0, time[1], time[2]} or 0 end
-- A lease that was forced out stays out. A plain command under way may store its text, and that is no vote.
local banned = call('ZSCORE', bans, mine)
if banned and now <= tonumber(banned) then return {0, time[1], time[2], 1} end
-- In quarantine the value may be a vote that was never counted. Modes 2 and 3 extend counted votes.
if quarantine and (mode == '0' or mode == '1') then return {3, call('PTTL', quarantine_key), time[1], time[2]} end
local fenced = last_fence and last_fence ~= ''
if fenced and mode == '3' then
  local last = call('ZSCORE', counter, 'f')
  if last and tonumber(last) > last_fence - (block or 1) then return {6, string.format('%.0f', last), time[1], time[2]} end
end
-- The expiry is written first, and always, for it needs no memory: a full server refuses a script whose first write needs
-- some, and lets any other through. So the server keeps what is held.
if own then call('PEXPIRE', lock, math.max(ttl, call('PTTL', lock))) end
if fenced then
  call('ZADD', counter, 'GT', last_fence, 'f')
  -- The lease's own first fence, by the first 48 bits of its token, for inspect.
  local first = string.format('%.0f', math.max(last_fence - (block or 1) + 1, 0))
  call('ZADD', counter, first, 'h', string.format('%.0f', tonumber(string.sub(mine, 1, 12), 16) or 0), 't')
  call('PEXPIRE', counter, counter_life)
end
local rest = tonumber(ttl)
if form then
  -- The key stays crowded. A vote ends a reservation, also another's.
  local full = now + rest * 1000
  if own then full = math.max(full, till) end
  call('SET', lock, string.format('=%.0f ', full) .. my_value, 'KEEPTTL')
  rest = math.ceil((full - now) / 1000)
elseif gone then
  call('SET', lock, my_value, 'PX', ttl)
elseif value ~= my_value then
  -- The lease has another label now.
  call('SET', lock, my_value, 'KEEPTTL')
end
if form and call('PTTL', lock) < rest then call('PEXPIRE', lock, rest) end
local code = own and 1 or 2
return record and {code, last_fence, time[1], time[2]} or code
