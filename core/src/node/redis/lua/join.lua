  if left then
    -- Refused for so long; at its home the waiter joins the queue, and the lock becomes crowded.
    local place, listeners, me = -1, 1, waiter
    local rank, queued
    if most ~= '' then rank, queued = call('ZRANK', queue, me), call('ZCARD', queue) / 2 end
    if rank or queued and queued < tonumber(most) then
      --- place.lua
      if stands or last then
        if call('PTTL', lock) < tonumber(life) then call('PEXPIRE', lock, life) end
      elseif ours and left >= 0 then
        -- Crowded: from here on scripts alone pass it on. Where TIME
        -- goes on within a script (6.2) it is read behind the PTTL,
        -- so that the vote does not end before its holder counts on
        -- that.
        time = call('TIME')
        local marked = string.format('=%.0f ', time[1] * 1000000 + time[2] + left * 1000 + 1000) .. value
        call('SET', lock, marked, 'PX', math.max(left, life))
      end
      listeners = redis.pcall('PUBSUB', 'NUMSUB', string.match(me, ' (.*)$'))[2] or 1
    end
    return {0, left, string.sub(holder or '', 1, 2048), place, listeners, time[1], time[2], last and 1}
  end
