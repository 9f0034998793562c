-- The next waiter at a lock that no holder has for itself: put into the scripts where they say so. KEYS[2] is the queue, a
-- sorted set in which a waiter (`number inbox`, of a reader `snumber inbox`) stands twice: by its ticket, which counts from
-- 1, and with `!` before it by the end of its place, in µs of TIME below zero.
-- 0: no waiter; 1: `me` is next; 2: reserved for the first, which is notified; 3: messages are not permitted; 5: the first
-- waits until the last reader has gone.
-- For a slot the message names it: `slot`.
-- Readers up to the first waiter that wants the lock for itself are notified at once. They stay queued until they arrive.
local function turn(me)
  local function reserve(who)
    form, till, occupant, stands = last and '&' or '@', string.format('%.0f', now + reservation * 1000), who, true
    if last then
      call('SET', lock, '&' .. till .. ' ' .. base .. ' ' .. occupant, 'KEEPTTL')
      if call('PTTL', lock) < math.max(reservation, life) then call('PEXPIRE', lock, math.max(reservation, life)) end
    else
      call('SET', lock, '@' .. till .. ' ' .. occupant, 'PX', math.max(reservation, life))
    end
  end
  while true do
    local first = call('ZRANGE', queue, '0', '+inf', 'BYSCORE', 'LIMIT', '0', '1')[1]
    if not first then return 0 end
    if string.sub(first, 1, 1) == 's' then
      local called, mine, ticket = false, false, nil
      local batch = call('ZRANGE', queue, '0', '+inf', 'BYSCORE', 'LIMIT', '0', '64', 'WITHSCORES')
      for i = 1, #batch, 2 do
        local one = batch[i]
        local number, inbox = string.match(one, '^s(%d+) (.*)$')
        if not number then break end
        if one == me then
          mine, ticket = true, batch[i + 1]
        else
          local alive = now < -(call('ZSCORE', queue, '!' .. one) or 0)
          if alive then
            local listeners = redis.pcall('PUBLISH', inbox, number)
            if type(listeners) == 'table' then return 3 end
            alive = listeners > 0
          end
          if alive then
            called, ticket = true, batch[i + 1]
            -- A called reader that is not here during the reservation loses its place.
            call('ZADD', queue, string.format('%.0f', -now - reservation * 1000), '!' .. one)
          else
            call('ZREM', queue, one, '!' .. one)
          end
        end
      end
      if called then reserve('s' .. ticket) end
      if ticket then return mine and 1 or 2 end
    else
      if first == me then return 1 end
      local number, inbox = string.match(first, '^(%d+) (.*)$')
      local ends = -(call('ZSCORE', queue, '!' .. first) or 0)
      if now < ends then
        if last then
          -- No message yet: the end of the readers is not known. The dead keep no
          -- reader waiting, nor does a waiter that has not asked for three
          -- seconds, or longer over a slow network, and so may be stopped: it is
          -- queued anew when it goes on. A slower waiter has a longer place by as
          -- much.
          local asked = ends - 1000 * life
          if now - asked < math.max(3000000, 2400000 + 2000 * reservation) and (redis.pcall('PUBSUB', 'NUMSUB', inbox)[2] or 1) > 0 then return 5 end
        else
          local listeners = redis.pcall('PUBLISH', inbox, slot and number .. ' ' .. slot or number)
          -- The dead look like the living. The queue stays, and the first that asks is served.
          if type(listeners) == 'table' then return 3 end
          if listeners > 0 then
            reserve(first)
            call('ZREM', queue, first, '!' .. first)
            return 2
          end
        end
      end
      call('ZREM', queue, first, '!' .. first)
    end
  end
end
