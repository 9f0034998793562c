-- A reader's vote, for so many ms: the key is for all readers from here on, and outlives each of their votes.
local rest = tonumber(ttl)
local full = string.format('%.0f', math.max(now + rest * 1000, least or 0))
local outlives = math.max(math.ceil((full - now) / 1000) + 1000, life)
if form == '&' then
  if known then call('SET', lock, '&' .. till .. ' ' .. base .. ' ' .. occupant, 'KEEPTTL') end
  if call('PTTL', lock) < outlives then call('PEXPIRE', lock, outlives) end
else
  -- Votes from before it was shared are no votes.
  call('DEL', shared)
  if form ~= '@' or not stands then till, occupant = '0', '' end
  call('SET', lock, '&' .. till .. ' ' .. base .. ' ' .. occupant, 'PX', outlives)
end
call('ZADD', shared, 'GT', full, my_value)
if call('PTTL', shared) < outlives then call('PEXPIRE', shared, outlives) end
