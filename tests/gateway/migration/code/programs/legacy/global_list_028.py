import json
import os
import openai

openai.api_key = os.environ.get('OPENAI_API_KEY')
openai.organization = os.environ.get('OPENAI_ORG')

FUNCTION_DESCRIPTIONS = []
FUNCTIONS = {}

def add_function(name, description, properties, function):
    FUNCTION_DESCRIPTIONS.append({
        'name': name,
        'description': description,
        'parameters': {'type': 'object', 'properties': properties, 'required': list(properties)},
    })
    FUNCTIONS[name] = function

def get_stock_price(ticker):
    return {'ticker': ticker, 'price': 101.5}

def convert(amount, rate):
    return amount * rate

add_function('get_stock_price', 'Price of a stock', {'ticker': {'type': 'string'}}, get_stock_price)
add_function('convert', 'Convert an amount', {'amount': {'type': 'number'}, 'rate': {'type': 'number'}}, convert)

def get_response(messages):
    return openai.ChatCompletion.create(
        model='gpt-3.5-turbo-16k-0613', messages=messages,
        functions=FUNCTION_DESCRIPTIONS, function_call='auto', temperature=0)

messages = [{'role': 'user', 'content': 'Price of ACME in euros?'}]
response = get_response(messages)
# Calls may follow each other.
while response['choices'][0]['finish_reason'] == 'function_call':
    function_call = response['choices'][0]['message']['function_call']
    function_name = function_call['name']
    function_arguments = json.loads(function_call['arguments'])
    print('%s(%s)' % (function_name, function_arguments))
    function_response = FUNCTIONS[function_name](**function_arguments)
    messages.append(response['choices'][0]['message'])
    messages.append({'role': 'function', 'name': function_name, 'content': json.dumps(function_response)})
    response = get_response(messages)
print(response['choices'][0]['message']['content'].strip())
