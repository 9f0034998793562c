-- A lock's line, for the scripts behind it. KEYS[2] is the queue, a sorted set in which a waiter (`number inbox`) stands
-- twice: by its ticket, which counts from 1, and with `!` before it by the end of its place, in µs of TIME below zero.
-- KEYS[3] is the reservation, `end waiter`, or empty for none. It is there as long as anybody is queued.

local function micros()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Whether the lock, free and not reserved, is for `me`. If not it is reserved for whose turn it is, who is told.
local function turn(me, now, length)
  local call, K = redis.call, KEYS
  while true do
    local waiter = call('ZRANGE', K[2], '0', '+inf', 'BYSCORE', 'LIMIT', '0', '1')[1]
    if not waiter or waiter == me then return true end
    if now < -(call('ZSCORE', K[2], '!' .. waiter) or 0) then
      local number, inbox = string.match(waiter, '^(%d+) (.*)$')
      local listeners = redis.pcall('PUBLISH', inbox, number)
      -- Not permitted: the dead cannot be told from the living. The queue stays, and whoever asks first is served.
      if type(listeners) == 'table' then return true end
      if listeners > 0 then
        call('SET', K[3], string.format('%.0f', now + length * 1000) .. ' ' .. waiter, 'KEEPTTL')
        call('ZREM', K[2], waiter, '!' .. waiter)
        return false
      end
    end
    call('ZREM', K[2], waiter, '!' .. waiter)
  end
end

-- Ends the reservation, whoever it is for.
local function unreserve()
  if redis.call('ZCARD', KEYS[2]) == 0 then
    redis.call('DEL', KEYS[3])
  else
    redis.call('SET', KEYS[3], '', 'KEEPTTL')
  end
end
