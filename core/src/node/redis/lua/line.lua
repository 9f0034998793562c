-- Whose turn it is at a lock that nobody holds: put into the scripts where they say so. KEYS[2] is the queue, a sorted
-- set in which a waiter (`number inbox`) stands twice: by its ticket, which counts from 1, and with `!` before it by the
-- end of its place, in µs of TIME below zero.
-- 0: nobody waits; 1: it is for `me`; 2: reserved for the first, who is told; 3: messages are not permitted.
local function turn(me)
  while true do
    local first = call('ZRANGE', K[2], '0', '+inf', 'BYSCORE', 'LIMIT', '0', '1')[1]
    if not first then return 0 end
    if first == me then return 1 end
    if now < -(call('ZSCORE', K[2], '!' .. first) or 0) then
      local number, inbox = string.match(first, '^(%d+) (.*)$')
      local listeners = redis.pcall('PUBLISH', inbox, number)
      -- The dead cannot be told from the living. The queue stays, and whoever asks first is served.
      if type(listeners) == 'table' then return 3 end
      if listeners > 0 then
        local reserved = string.format('@%.0f ', now + reservation * 1000)
        call('SET', K[1], reserved .. first, 'PX', math.max(reservation, life))
        call('ZREM', K[2], first, '!' .. first)
        return 2
      end
    end
    call('ZREM', K[2], first, '!' .. first)
  end
end
