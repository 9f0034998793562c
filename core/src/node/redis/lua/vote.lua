-- A reader's vote, for so many ms: what stands there is for readers from here on, and outlives each of them.
local rest = tonumber(A[2])
local full = string.format('%.0f', math.max(now + rest * 1000, least or 0))
local outlives = math.max(math.ceil((full - now) / 1000) + 1000, life)
if form == '&' then
  if known then call('SET', K[1], '&' .. till .. ' ' .. base .. ' ' .. whose, 'KEEPTTL') end
  if call('PTTL', K[1]) < outlives then call('PEXPIRE', K[1], outlives) end
else
  -- Those that stood there before it did are none.
  call('DEL', K[3])
  if form ~= '@' or not stands then till, whose = '0', '' end
  call('SET', K[1], '&' .. till .. ' ' .. base .. ' ' .. whose, 'PX', outlives)
end
call('ZADD', K[3], 'GT', full, A[1])
if call('PTTL', K[3]) < outlives then call('PEXPIRE', K[3], outlives) end
