-- KEYS lock, queue, shared, bans [, counter [, record, quarantine]].
-- ARGV value, ttl, mode, waits [, record, not_after, fence, life of the counter]. As extend, for a vote that is shared. One
-- that holds the lock for itself becomes such a vote, and who waits to share it is called.
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
local score = last and call('ZSCORE', K[3], A[1])
local own = score and now <= tonumber(score)
local alone = value and lease(value) == mine or form == '=' and stands and lease(whose) == mine
local held = value and (not form or form ~= '@' and form ~= '&' and stands)
if A[3] == '3' and not own or not own and not alone and (held or A[3] == '0') then
  return A[5] and {0, time[1], time[2]} or 0
end
-- Who was forced out does not come back. Its vote may, by a plain command that was under way, and is none.
local banned = call('ZSCORE', K[4], mine)
if banned and now <= tonumber(banned) then return {0, time[1], time[2], 1} end
-- What stands in quarantine may be a vote that was never counted. Modes 2 and 3 are of one that is.
if quarantine and (A[3] == '0' or A[3] == '1') then return {3, call('PTTL', K[7]), time[1], time[2]} end
local fence = A[7] or ''
if fence ~= '' and A[3] == '3' then
  -- Where it is not known, all that was counted stands for it.
  local least = base ~= '0' and base or string.format('%.0f', call('ZSCORE', K[5], 'f') or 0)
  if tonumber(least) >= tonumber(fence) then return {6, least, time[1], time[2]} end
end
-- Written first, as by extend, for it needs no memory.
local lives = (own or alone) and call('PTTL', K[1]) or 0
if lives > 0 then call('PEXPIRE', K[1], lives) end
if fence ~= '' then
  call('ZADD', K[5], 'GT', fence, 'f')
  call('PEXPIRE', K[5], A[8])
end
local known
if form ~= '&' then
  base = fence ~= '' and string.format('%.0f', math.max(call('ZSCORE', K[5], 'f') or 0, 1)) or '0'
end
local reservation, life = string.match(A[4], '^(%d+) (%d+)$')
-- What a vote was counted until stands.
local least = alone and (form and tonumber(till) or now + call('PTTL', K[1]) * 1000 + 1000)
--- vote.lua
if alone and not quarantine then
  local slot
  form, last = '&', tonumber(full)
  --- line.lua
  -- What is forbidden is told to whoever asks next.
  pcall(turn, nil)
end
local code = (own or alone) and 1 or 2
return A[5] and {code, A[7], time[1], time[2]} or code
