-- KEYS as of extend. ARGV as of acquire, but for the third, for how many ms the lease is banned whose vote is taken over, and
-- the fourth, its value. A lease goes on in another client: its value stands from here on where that one stood, and the one
-- before is nothing any more.
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value, quarantine
if A[5] and A[5] ~= '' then
  local m = call('MGET', K[1], K[5], K[6])
  if A[5] ~= '-' and m[2] ~= A[5] then return {4, time[1], time[2]} end
  value, quarantine = m[1], m[3]
end
if A[5] and now > tonumber(A[6]) then return {5, time[1], time[2]} end
if not value then value = call('GET', K[1]) end
--- form.lua
--- lease.lua
-- A text may say anything. What names no token of ours proves nothing, and bans nothing.
local bans, banned, ban = K[2], lease(A[4]), A[3]
if not banned then return {2, time[1], time[2]} end
-- What stands there behind a ban is no vote of the lease: a plain command, which knows no bans, has come late.
local dead = call('ZSCORE', bans, banned)
dead = dead and now <= tonumber(dead)
-- Also where it has no vote: an extension that its client sent before may come yet, and would store it anew.
--- ban.lua
local forced = call('ZSCORE', bans, mine)
if forced and now <= tonumber(forced) then return {2, time[1], time[2]} end
-- In its form: a key of readers, or one that is reserved or kept, holds no lease, whatever text is said to be its value.
local holder = form == '=' and stands and whose or not form and value
local theirs = holder and lease(holder)
if theirs ~= mine and (dead or theirs ~= banned) then return {2, time[1], time[2]} end
if quarantine then return {3, call('PTTL', K[6]), time[1], time[2]} end
local rest = tonumber(A[2])
if form then
  local full = math.max(now + rest * 1000, till)
  call('SET', K[1], string.format('=%.0f ', full) .. A[1], 'KEEPTTL')
  rest = math.ceil((full - now) / 1000)
else
  call('SET', K[1], A[1], 'KEEPTTL')
end
if call('PTTL', K[1]) < rest then call('PEXPIRE', K[1], rest) end
local counter = K[4]
--- fence.lua
