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
-- Who was forced out does not come back. Its vote may, by a plain command that was under way, and is none.
local banned = call('ZSCORE', bans, mine)
if banned and now <= tonumber(banned) then return {0, time[1], time[2], 1} end
-- What stands in quarantine may be a vote that was never counted. Modes 2 and 3 are of one that is.
if quarantine and (mode == '0' or mode == '1') then return {3, call('PTTL', quarantine_key), time[1], time[2]} end
local fenced = last_fence and last_fence ~= ''
if fenced and mode == '3' then
  local last = call('ZSCORE', counter, 'f')
  if last and tonumber(last) > last_fence - (block or 1) then return {6, string.format('%.0f', last), time[1], time[2]} end
end
-- This is written first, and in any case, for it needs no memory: a server that is full refuses a script whose first write
-- needs some, and lets any other through. So it keeps what is held.
if own then call('PEXPIRE', lock, math.max(ttl, call('PTTL', lock))) end
if fenced then
  call('ZADD', counter, 'GT', last_fence, 'f')
  -- Whose its own of them is, by the first 48 bits of the token, for those who look.
  local first = string.format('%.0f', math.max(last_fence - (block or 1) + 1, 0))
  call('ZADD', counter, first, 'h', string.format('%.0f', tonumber(string.sub(mine, 1, 12), 16) or 0), 't')
  call('PEXPIRE', counter, counter_life)
end
local rest = tonumber(ttl)
if form then
  -- It stays crowded. A vote ends a reservation, whoever it is for.
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
