-- KEYS lock, bans, shared [, counter [, record, quarantine]].
-- ARGV value, ttl, mode [, record, not_after, fence, life of the counter [, block]].
-- Modes: 0 extend; 1 and repair; 2 and repair even in quarantine; 3 store the fence, which is the last of its block.
local call, K, A = redis.call, KEYS, ARGV
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local value, quarantine
if A[4] and A[4] ~= '' then
  local m = call('MGET', K[1], K[5], K[6])
  if A[4] ~= '-' and m[2] ~= A[4] then return {4, time[1], time[2]} end
  value, quarantine = m[1], m[3]
end
if A[4] and now > tonumber(A[5]) then return {5, time[1], time[2]} end
if not value then
  value = redis.pcall('GET', K[1])
  -- Of another type, which MGET does not show: held, by somebody who is none of us.
  if type(value) == 'table' then
    -- What may not be looked at is no answer.
    if not string.find(value.err, 'WRONGTYPE') then return value end
    value = ''
  end
end
--- form.lua
--- lease.lua
local own = value and lease(value) == mine or form == '=' and stands and lease(whose) == mine
local gone = not last and (not value or form == '@' or form == '&' or form and not stands)
if not own and (not gone or A[3] == '0' or A[3] == '3') then return A[4] and {0, time[1], time[2]} or 0 end
-- Who was forced out does not come back. Its vote may, by a plain command that was under way, and is none.
local banned = call('ZSCORE', K[2], mine)
if banned and now <= tonumber(banned) then return {0, time[1], time[2], 1} end
-- What stands in quarantine may be a vote that was never counted. Modes 2 and 3 are of one that is.
if quarantine and (A[3] == '0' or A[3] == '1') then return {3, call('PTTL', K[6]), time[1], time[2]} end
local fenced = A[6] and A[6] ~= ''
if fenced and A[3] == '3' then
  local last = call('ZSCORE', K[4], 'f')
  if last and tonumber(last) > A[6] - (A[8] or 1) then return {6, string.format('%.0f', last), time[1], time[2]} end
end
-- This is written first, and in any case, for it needs no memory: a server that is full refuses a script whose first write
-- needs some, and lets any other through. So it keeps what is held.
if own then call('PEXPIRE', K[1], math.max(A[2], call('PTTL', K[1]))) end
if fenced then
  call('ZADD', K[4], 'GT', A[6], 'f')
  -- Whose its own of them is, by the first 48 bits of the token, for those who look.
  local first = string.format('%.0f', math.max(A[6] - (A[8] or 1) + 1, 0))
  call('ZADD', K[4], first, 'h', string.format('%.0f', tonumber(string.sub(mine, 1, 12), 16) or 0), 't')
  call('PEXPIRE', K[4], A[7])
end
local rest = tonumber(A[2])
if form then
  -- It stays crowded. A vote ends a reservation, whoever it is for.
  local full = now + rest * 1000
  if own then full = math.max(full, till) end
  call('SET', K[1], string.format('=%.0f ', full) .. A[1], 'KEEPTTL')
  rest = math.ceil((full - now) / 1000)
elseif gone then
  call('SET', K[1], A[1], 'PX', A[2])
elseif value ~= A[1] then
  -- The lease has another label now.
  call('SET', K[1], A[1], 'KEEPTTL')
end
if form and call('PTTL', K[1]) < rest then call('PEXPIRE', K[1], rest) end
local code = own and 1 or 2
return A[4] and {code, A[6], time[1], time[2]} or code
