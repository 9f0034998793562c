-- Place of `me` in the queue, where it stands at `rank` if at all, of so many that are `queued`: put into the scripts where
-- they say so.
local ends = string.format('%.0f', -now - life * 1000)
if rank then
  -- The ends of places come before waiters, one each.
  place = rank - queued
  call('ZADD', queue, ends, '!' .. me)
else
  place = queued
  local last = queued > 0 and call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2] or 0
  call('ZADD', queue, string.format('%.0f', last + 1), me, ends, '!' .. me)
end
if queued == 0 or call('PTTL', queue) < tonumber(life) then call('PEXPIRE', queue, life) end
