-- Whose turn it is at a lock that nobody holds for itself: put into the scripts where they say so. KEYS[2] is the queue, a
-- sorted set in which a waiter (`number inbox`, of one that shares `snumber inbox`) stands twice: by its ticket, which
-- counts from 1, and with `!` before it by the end of its place, in µs of TIME below zero.
-- 0: nobody waits; 1: it is for `me`; 2: reserved for the first, who is told; 3: messages are not permitted;
-- 5: the first waits until the last reader has gone.
-- Who is called for a slot is told which: `slot`.
-- Of readers all up to the first who wants it for itself are called at once. They stand in the queue until they come.
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
            -- Who does not come while it is reserved for it has no place any more.
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
          -- It is told nothing yet: what it waits for has no end that is known. The dead keep nobody waiting, nor does one that
          -- has not asked for three seconds, or longer over a slow network, and so may be stopped: it is queued anew when it goes
          -- on. Its own place is longer by as much as it is slower.
          local asked = ends - 1000 * life
          if now - asked < math.max(3000000, 2400000 + 2000 * reservation) and (redis.pcall('PUBSUB', 'NUMSUB', inbox)[2] or 1) > 0 then return 5 end
        else
          local listeners = redis.pcall('PUBLISH', inbox, slot and number .. ' ' .. slot or number)
          -- The dead cannot be told from the living. The queue stays, and whoever asks first is served.
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
