-- KEYS as of extend. ARGV as of acquire, but for the third, for how many ms the lease is banned whose vote is taken over, and
-- the fourth, its value. A lease goes on in another client: its value stands from here on where that one stood, and the one
-- before is nothing any more.
local call = redis.call
local lock, bans, shared, counter, record_key, quarantine_key = unpack(KEYS)
local my_value, ttl, ban, adopted, record, not_after, candidate, counter_life, block = unpack(ARGV)
--- guard.lua
if not value then value = call('GET', lock) end
--- form.lua
--- lease.lua
-- A text may say anything. What names no token of ours proves nothing, and bans nothing.
local banned = lease(adopted)
if not banned then return {2, time[1], time[2]} end
-- What stands there behind a ban is no vote of the lease: a plain command, which knows no bans, has come late.
local dead = call('ZSCORE', bans, banned)
dead = dead and now <= tonumber(dead)
-- Also where it has no vote: an extension that its client sent before may come yet, and would store it anew.
--- ban.lua
local forced = call('ZSCORE', bans, mine)
if forced and now <= tonumber(forced) then return {2, time[1], time[2]} end
-- In its form: a key of readers, or one that is reserved or kept, holds no lease, whatever text is said to be its value.
local holder = form == '=' and stands and occupant or not form and value
local theirs = holder and lease(holder)
if theirs ~= mine and (dead or theirs ~= banned) then return {2, time[1], time[2]} end
if quarantine then return {3, call('PTTL', quarantine_key), time[1], time[2]} end
local rest = tonumber(ttl)
if form then
  local full = math.max(now + rest * 1000, till)
  call('SET', lock, string.format('=%.0f ', full) .. my_value, 'KEEPTTL')
  rest = math.ceil((full - now) / 1000)
else
  call('SET', lock, my_value, 'KEEPTTL')
end
if call('PTTL', lock) < rest then call('PEXPIRE', lock, rest) end
--- fence.lua
