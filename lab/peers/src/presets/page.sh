#!/bin/sh
printf 'Content-Type: text/html\r\n\r\n'
printf '<!doctype html>\n<title>Squares</title>\n<table>\n'
number=0 sum=0
while [ $number -lt 100 ]; do
  number=$((number + 1)) sum=$((sum + number * number))
  echo "<tr><td>$number<td>$((number * number))<td>$sum"
done
echo '</table>'
