\set id random(1,100000)
UPDATE stock SET remaining = remaining + 1 WHERE id = :id;
