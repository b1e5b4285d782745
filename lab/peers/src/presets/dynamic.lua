function handle(r)
  local text, sum = {'<!doctype html>\n<title>Squares</title>\n<table>\n'}, 0
  for number = 1, tonumber((r.args or ''):match('rows=(%d+)')) or 100 do
    sum = sum + number * number
    text[#text + 1] = string.format('<tr><td>%d<td>%d<td>%d\n', number, number * number, sum)
  end
  text[#text + 1] = '</table>\n'
  r.content_type = 'text/html'
  r:puts(table.concat(text))
  return apache2.OK
end
