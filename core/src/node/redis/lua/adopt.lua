-- KEYS as of extend. ARGV as of acquire, but for the third: for how many ms the adopted lease is banned, and the fourth:
-- its value. The lease goes on in this client: its new value takes the place of the old one, which counts for nothing any
-- more.
local call = redis.call
local lock, bans, shared, counter, record_key, quarantine_key = unpack(KEYS)
local my_value, ttl, ban, adopted, record, not_after, candidate, counter_life, block = unpack(ARGV)
--- guard.lua
if not value then value = call('GET', lock) end
--- form.lua
--- lease.lua
-- A text that is none of our values names no token: it shows nothing, and bans nothing.
local banned = lease(adopted)
if not banned then return {2, time[1], time[2]} end
-- A banned value under the key is no vote of the lease: a plain command, which ignores bans, has come late.
local dead = call('ZSCORE', bans, banned)
dead = dead and now <= tonumber(dead)
-- The ban stands also where the lease has no vote: a late extension of its client may store it anew.
--- ban.lua
local forced = call('ZSCORE', bans, mine)
if forced and now <= tonumber(forced) then return {2, time[1], time[2]} end
-- The form counts: a key that is shared, reserved or kept holds no lease, whatever text stands in it.
local holder = form == '=' and stands and occupant or not form and value
local theirs = holder and lease(holder)
-- The vote is of neither lease, or of a dead one: refused.
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
